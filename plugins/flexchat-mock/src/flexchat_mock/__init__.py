"""FlexChat without a network: mock tools, a scripted and a rehearsal model."""
