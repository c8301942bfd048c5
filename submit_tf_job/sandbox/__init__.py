"""A real YARN cluster on this machine: ZooKeeper, HDFS, ResourceManager, NodeManager and Registry
DNS, each in its own JVM; on request with Kerberos, a second ResourceManager, TLS and Docker.
"""
