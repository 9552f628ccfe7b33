"""The command line: arguments, commands, output, and the one place that turns an error into an exit status."""
