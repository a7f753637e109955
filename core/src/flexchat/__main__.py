"""``python -m flexchat`` is ``flexchat``, the command of the package flexchat-cli."""

try:
    from flexchat_command import main
except ModuleNotFoundError as error:
    if error.name != "flexchat_command":
        raise
    from .installing import how_to_install

    hint = how_to_install("flexchat-cli")
    raise SystemExit(f"flexchat: the command line is a package of its own, flexchat-cli: {hint}") from None

raise SystemExit(main())
