"""What a machine needs besides packages, and checks that it fits: Java, JARs, class archive, settings of a local session."""
