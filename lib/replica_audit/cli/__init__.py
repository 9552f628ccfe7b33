"""The command line: arguments, commands, output, and the one place where an error becomes an exit status."""
