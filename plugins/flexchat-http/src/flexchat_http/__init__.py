"""HTTP services and OpenAPI documents as tools of FlexChat."""
