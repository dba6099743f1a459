// A table of texts, links, bars and buttons. What the rows hold is text, whatever it looks like.
export default {
  template: `
    <div class="bq-table-box">
      <table class="bq-table" :aria-label="label">
        <thead>
          <tr>
            <th v-for="column in columns" :key="column.field" scope="col" :class="{ 'bq-number': column.isNumber }">
              {{ column.label }}
            </th>
            <th v-if="actions.length" scope="col"><span class="bq-unseen">Actions</span></th>
          </tr>
        </thead>
        <tbody>
          <tr v-for="row in rows" :key="row.id">
            <td
              v-for="column in columns"
              :key="column.field"
              :data-label="column.label"
              :class="[
                { 'bq-number': column.isNumber, 'bq-code': column.isCode, 'bq-wide': column.isWide },
                { 'bq-blank': isBlank(row[column.field]) || (column.isNumber && row[column.field] === '0') },
                column.tone && row[column.tone] ? 'bq-tone-' + row[column.tone] : '',
              ]"
            >
              <span v-if="column.isBar && typeof row[column.field] === 'number'" class="bq-progress">
                <progress max="1" :value="row[column.field]"></progress>
                {{ Math.round(row[column.field] * 100) }}%
              </span>
              <a v-else-if="column.link && row[column.link]" class="bq-link" :href="row[column.link]">{{
                row[column.field]
              }}</a>
              <span v-else>{{ row[column.field] }}</span>
            </td>
            <td v-if="actions.length" class="bq-actions">
              <button
                v-for="action in offered(row)"
                :key="action.name"
                type="button"
                class="bq-row-button"
                :class="{ 'bq-grave': action.isGrave }"
                :aria-label="action.label + ' ' + row[columns[0].field]"
                @click="$emit('act', { action: action.name, id: row.id })"
              >
                {{ action.label }}
              </button>
            </td>
          </tr>
        </tbody>
      </table>
    </div>
  `,
  props: { columns: Array, rows: Array, label: String, actions: Array },
  emits: ["act"],
  methods: {
    isBlank: (value) => value === "" || value === null || value === undefined,
    offered(row) {
      return this.actions.filter((action) => (row.actions || []).includes(action.name));
    },
  },
};
