"""The kit for people who write plugins: a scripted model, replayed traffic, and the laws a plugin keeps."""
