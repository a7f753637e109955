"""``python -m flexchat`` is ``flexchat``."""

from flexchat_command import main

raise SystemExit(main())
