// What the dashboard does in the browser itself: the theme, the keyboard, and points for the charts.
"use strict";

const bq = (() => {
  const THEMES = ["auto", "light", "dark"];
  const theme = () => localStorage.getItem("bucketq-theme") || "auto";

  function applyTheme() {
    const wanted = theme();
    Quasar.Dark.set(wanted === "auto" ? "auto" : wanted === "dark");
  }

  function turnTheme() {
    const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
    localStorage.setItem("bucketq-theme", next);
    applyTheme();
    Quasar.Notify.create({ message: `Theme: ${next === "auto" ? "as the system has it" : next}`, timeout: 1200 });
  }

  // Beside the page where there is room, and over it on a phone.
  const isNarrow = () => matchMedia("(max-width: 900px)").matches;
  const root = document.documentElement;

  function turnMenu() {
    const isOpen = isNarrow() ? root.classList.toggle("bq-menu-open") : !root.classList.toggle("bq-menu-closed");
    document.getElementById("bq-menu")?.setAttribute("aria-expanded", isOpen);
    if (isOpen) document.querySelector("#bq-nav a")?.focus();
  }

  function closeMenu() {
    if (root.classList.contains("bq-menu-open")) turnMenu();
  }

  document.addEventListener("click", (event) => {
    if (!event.target.closest("#bq-nav, #bq-menu")) closeMenu();
  });

  // Before the first paint, for those whose theme is not the system's.
  const early = theme();
  const isDark = early === "dark" || (early === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  root.style.background = isDark ? "#0f141b" : "#f5f7fa";
  root.style.colorScheme = early === "auto" ? "light dark" : early;

  function push(id, rows, most) {
    const chart = getElement(id)?.chart;
    if (!chart) return;
    const source = chart.getOption().dataset[0].source;
    source.push(...rows);
    if (source.length > most) source.splice(0, source.length - most);
    chart.setOption({ dataset: { source } });
  }

  function spell(value, unit) {
    if (value === null || value === undefined || value === "-") return "–";
    if (unit === "s") {
      if (value < 1) return `${Math.round(value * 1000)} ms`;
      if (value < 120) return `${+value.toFixed(1)} s`;
      return value < 7200 ? `${Math.round(value / 60)} min` : `${Math.round(value / 3600)} h`;
    }
    const short = value >= 1e6 ? `${+(value / 1e6).toFixed(1)}M` : value >= 1e4 ? `${+(value / 1e3).toFixed(1)}k` : `${+value.toFixed(2)}`;
    return short + unit;
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      Quasar.Notify.create({ message: "Copied.", timeout: 1200 });
    } catch {
      Quasar.Notify.create({ message: "The browser does not allow copying here; select the text instead." });
    }
  }

  let went = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    if (document.querySelector(".q-dialog")) return;
    if (event.key === "Escape") closeMenu();
    if (Date.now() - went < 1500) {
      went = 0;
      const link = document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`);
      if (link) {
        event.preventDefault();
        location.href = link.href;
      }
      return;
    }
    const click = (id) => document.getElementById(id)?.click();
    if (event.key === "g") went = Date.now();
    else if (event.key === "t") turnTheme();
    else if (event.key === "m") turnMenu();
    else if (event.key === "?") click("bq-help");
    else if (event.key === "/") {
      const search = document.querySelector("[data-search] input, input[data-search]");
      if (search) {
        event.preventDefault();
        search.focus();
      }
    }
  });

  return { applyTheme, turnTheme, turnMenu, push, spell, copy };
})();
