"""FlexChat tools that need no service: calculator, dates, ids, text."""
