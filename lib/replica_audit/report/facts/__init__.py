"""What the rows of an audit come to as a whole, as data: verdict, losses, conditions. Reports put it into words."""
