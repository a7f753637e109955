"""FlexChat tools that use FlexChat's own services: document search."""
