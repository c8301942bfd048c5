"""The local machine: files, Kerberos, Hadoop configuration and Docker Engine."""
