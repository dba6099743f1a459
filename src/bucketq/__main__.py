"""`python -m bucketq` is the `bucketq` command."""

import sys

from bucketq.cli.__main__ import main

sys.exit(main())
