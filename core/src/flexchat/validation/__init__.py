"""Which models really call tools: cases, tries, and what they prove."""
