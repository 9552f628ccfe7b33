"""What is installed beside the packages, and whether it fits: Java, JARs, class archive, settings of a local session."""
