"""Statistics and objectives of FlexChat's turns."""
