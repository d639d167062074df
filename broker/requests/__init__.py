"""What one request is: the call, whom it is for, who pays, and the table of APIs."""
