"""Tools that need no service: calculator, dates, ids and text."""
