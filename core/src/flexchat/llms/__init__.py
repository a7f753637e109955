"""The models a config names: who is asked, how often, and what is known about the servers behind them."""
