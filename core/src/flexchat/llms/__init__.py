"""The models a config names: who is asked, how often, and what is known of the servers behind them."""
