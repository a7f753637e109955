"""OpenTelemetry traces and metrics of turns."""
