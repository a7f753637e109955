"""From files to documents: find them (walk), read them (kinds and the …_file modules), cut them (chunk), store them."""
