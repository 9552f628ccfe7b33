"""Requirements of a machine besides packages, and checks that they fit: Java, JARs, class archive, settings of a local session."""
