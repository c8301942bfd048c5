import java.io.*;
import java.net.*;
import java.nio.file.*;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DFSUtil;
import org.apache.hadoop.hdfs.DFSUtilClient;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.yarn.conf.HAUtil;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.util.RMHAUtils;
import org.apache.hadoop.yarn.webapp.util.WebAppUtils;

/** Says what Hadoop's classes make of directories of configuration files: hdfs|yarn, a directory of directories. */
public class AskHadoop {
  static PrintStream out = System.out;

  static void say(String key, Object value) {
    out.println(key + "\t" + String.valueOf(value).trim().replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t"));
  }

  static void ask(String mode, Path dir, List<String> keys) throws Exception {
    Configuration conf = mode.equals("yarn") ? new YarnConfiguration() : new HdfsConfiguration();
    conf.setClassLoader(new URLClassLoader(new URL[] {dir.toUri().toURL()}, AskHadoop.class.getClassLoader()));
    conf.reloadConfiguration();
    for (String key : keys) {
      try {
        if (conf.getRaw(key) != null) say(key, conf.get(key));
      } catch (IllegalStateException error) {
        say(key, "TOO DEEP");
      }
    }
    if (mode.equals("yarn")) {
      List<String> found = new ArrayList<>();
      String scheme = YarnConfiguration.useHttps(conf) ? "https://" : "http://";
      if (HAUtil.isHAEnabled(conf) && !HAUtil.getRMHAIds(conf).isEmpty()) {
        for (String each : RMHAUtils.getRMHAWebappAddresses(new YarnConfiguration(conf))) found.add(scheme + each);
      } else {
        found.add(scheme + WebAppUtils.getRMWebAppURLWithoutScheme(conf));
      }
      say("=resource-managers", String.join(",", found));
    } else {
      URI fs = FileSystem.getDefaultUri(conf);
      say("=default", fs);
      say("=scheme", DFSUtil.getHttpClientScheme(conf));
      for (String address : conf.get("test.addresses", "").split(",")) {
        if (address.isEmpty()) continue;
        String[] parts = address.split(":");
        InetSocketAddress at = new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
        say("=web " + address, DFSUtil.getInfoServer(at, conf, DFSUtil.getHttpClientScheme(conf)).getAuthority());
      }
    }
  }

  public static void main(String[] words) throws Exception {
    if (words[0].equals("hdfs")) new HdfsConfiguration();
    List<Path> directories = new ArrayList<>();
    try (DirectoryStream<Path> found = Files.newDirectoryStream(Paths.get(words[1]))) {
      for (Path each : found) directories.add(each);
    }
    List<String> keys = Files.readAllLines(Paths.get(words[2]));
    Collections.sort(directories);
    for (Path each : directories) {
      out.println("#" + each.getFileName());
      try {
        ask(words[0], each, keys);
      } catch (RuntimeException error) {
        say("=error", error);
      }
    }
  }
}
