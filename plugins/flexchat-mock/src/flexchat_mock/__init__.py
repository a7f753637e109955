"""FlexChat without a network: mock tools and a rehearsal model."""
