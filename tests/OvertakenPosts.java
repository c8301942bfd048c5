import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.http.FilterContainer;
import org.apache.hadoop.http.FilterInitializer;
import org.apache.hadoop.util.Progressable;

/**
 * Lets the second of two POSTs of one service stand still after its check of the name, as a name
 * like `overtaken-posted-1000-…` says: until the first one has stored the service (`stored`), or
 * its application's id, too (`posted`), and as many milliseconds longer
 * (tests/cluster/test_overtaken.py).
 */
public class OvertakenPosts extends FilterInitializer {
  @Override
  public void initFilter(FilterContainer container, Configuration conf) {
    Configuration.addDefaultResource("overtaken-site.xml");
  }

  /** HDFS, as the services API writes to it. */
  public static class Hdfs extends DistributedFileSystem {
    private static final Pattern STORED =
        Pattern.compile(".*/\\.yarn/services/(overtaken-(\\w+)-(\\d+)-[^/]*)/\\1\\.json");
    private static final ConcurrentHashMap<String, AtomicInteger> WRITERS =
        new ConcurrentHashMap<>();
    private static final int POLLS = 6000;

    @Override
    public FSDataOutputStream create(
        Path file, FsPermission permission, boolean overwrite, int bufferSize, short replication,
        long blockSize, Progressable progress) throws IOException {
      Matcher stored = STORED.matcher(file.toUri().getPath());
      if (stored.matches()) {
        AtomicInteger writers =
            WRITERS.computeIfAbsent(stored.group(1), name -> new AtomicInteger());
        int number = writers.incrementAndGet();
        try {
          for (int i = 0; number == 1 && writers.get() < 2 && i < POLLS; i++) {
            Thread.sleep(10);
          }
          String awaited = stored.group(2).equals("posted") ? "application_" : "\"name\"";
          for (int i = 0; number == 2 && !holds(file, awaited) && i < POLLS; i++) {
            Thread.sleep(10);
          }
          if (number == 2) {
            Thread.sleep(Long.parseLong(stored.group(3)));
          }
        } catch (InterruptedException e) {
          throw new IOException(e);
        }
      }
      return super.create(
          file, permission, overwrite, bufferSize, replication, blockSize, progress);
    }

    private boolean holds(Path file, String words) {
      try (FSDataInputStream in = open(file)) {
        return new String(in.readAllBytes(), StandardCharsets.UTF_8).contains(words);
      } catch (IOException e) {
        return false; // not yet there, or being written
      }
    }
  }
}
