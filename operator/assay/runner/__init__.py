"""What runs inside the attempt pod. The only place that imports Harbor."""
