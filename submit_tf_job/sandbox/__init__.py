"""A real YARN cluster on this machine: ZooKeeper, HDFS, ResourceManager, NodeManager and Registry
DNS, one JVM each; with Kerberos, a second ResourceManager and TLS where requested.
"""
