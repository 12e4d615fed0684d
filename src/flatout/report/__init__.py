"""A result, told: to a terminal, as JSON, in the formats of other tools. Each module is loaded by who needs it."""
