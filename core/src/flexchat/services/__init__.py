"""The services a config names, opened: models and document stores."""
