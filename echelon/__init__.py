"""The command `echelon`: what ties the parts together. Nothing else imports it."""
