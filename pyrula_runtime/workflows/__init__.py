"""How users write workflows: decorated functions, turned into the programs and step calls that the engine executes."""
