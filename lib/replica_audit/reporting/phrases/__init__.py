"""What every report is made of: sentences, columns and colours, findings and commands in a line."""
