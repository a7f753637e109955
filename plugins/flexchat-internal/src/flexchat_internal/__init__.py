"""Tools built on FlexChat's own services: document search."""
