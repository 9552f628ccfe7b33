"""What a machine needs beside packages, and whether it fits: Java, JARs, class archive, settings of a local session."""
