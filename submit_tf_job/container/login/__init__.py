"""Log in to Kerberos from the job's keytab inside a container."""
