"""``python -m flexchat`` is ``flexchat``."""

from .cli.main import main

raise SystemExit(main())
