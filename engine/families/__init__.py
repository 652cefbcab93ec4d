"""Model families. Each is a package with its own release reader, prompt, column embedding and sampling rules. Add a
family as a package next to `s2`."""
