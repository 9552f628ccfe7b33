"""Two snapshots of one cluster compared: did every follower keep exactly what it should have?"""
