"""Results and networks as text, tables, figures and drawings: values first, then their looks."""
