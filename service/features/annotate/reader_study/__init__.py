"""Reader studies: people judge the answers of two methods, side by side and blinded."""
