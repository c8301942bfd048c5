"""Set the variables that programs of other systems read (`variables` in the job spec)."""
