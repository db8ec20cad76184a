"""``python -m onednn_py``."""

import sys

from .cli import main

sys.exit(main())
