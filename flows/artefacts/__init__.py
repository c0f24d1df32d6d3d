"""What a run leaves for people: constraint sheet, data list, architecture sheet, accuracy report, plots."""
