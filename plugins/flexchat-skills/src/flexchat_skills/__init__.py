"""Agent Skills: folders of instructions that a model loads when it needs them."""
