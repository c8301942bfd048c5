import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.util.Collections;
import java.util.concurrent.ThreadLocalRandom;
import javax.servlet.Filter;
import javax.servlet.FilterChain;
import javax.servlet.FilterConfig;
import javax.servlet.ServletException;
import javax.servlet.ServletOutputStream;
import javax.servlet.ServletRequest;
import javax.servlet.ServletResponse;
import javax.servlet.WriteListener;
import javax.servlet.http.HttpServletResponse;
import javax.servlet.http.HttpServletResponseWrapper;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.http.FilterContainer;
import org.apache.hadoop.http.FilterInitializer;

/** Holds each answer of a ResourceManager or NodeManager back for a random time (tests/disturb.py). */
public class LateAnswers extends FilterInitializer {
  @Override
  public void initFilter(FilterContainer container, Configuration conf) {
    String most = conf.get("submit_tf_job.test.delay-ms");
    container.addGlobalFilter("late", Late.class.getName(), Collections.singletonMap("ms", most));
  }

  public static class Late implements Filter {
    private long mostMs;

    @Override
    public void init(FilterConfig config) {
      mostMs = Long.parseLong(config.getInitParameter("ms"));
    }

    /** The answer is made first and then held: its receiver learns what may be true no more. */
    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
        throws IOException, ServletException {
      Held held = new Held((HttpServletResponse) response);
      try {
        chain.doFilter(request, held);
      } finally {
        try {
          Thread.sleep(ThreadLocalRandom.current().nextLong(mostMs + 1));
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
        }
        held.send();
      }
    }

    @Override
    public void destroy() {}
  }

  /** An answer whose body, or error, is kept. */
  private static class Held extends HttpServletResponseWrapper {
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final PrintWriter writer;
    private final ServletOutputStream stream;
    private boolean flushed;
    private int error;
    private String message;

    Held(HttpServletResponse response) throws IOException {
      super(response);
      stream = new ServletOutputStream() {
        @Override
        public void write(int b) {
          bytes.write(b);
        }

        @Override
        public void write(byte[] b, int at, int length) {
          bytes.write(b, at, length);
        }

        @Override
        public void flush() {
          flushed = true;
        }

        @Override
        public boolean isReady() {
          return true;
        }

        @Override
        public void setWriteListener(WriteListener listener) {}
      };
      writer = new PrintWriter(new OutputStreamWriter(stream, "UTF-8"));
    }

    @Override
    public ServletOutputStream getOutputStream() {
      return stream;
    }

    @Override
    public PrintWriter getWriter() {
      return writer;
    }

    @Override
    public void flushBuffer() {
      flushed = true;
    }

    /** As it would be by now: Jersey forwards an answer of 404 that is not. */
    @Override
    public boolean isCommitted() {
      return flushed || super.isCommitted();
    }

    @Override
    public void reset() {
      super.reset();
      resetBuffer();
    }

    @Override
    public void resetBuffer() {
      boolean before = flushed;
      writer.flush();
      bytes.reset();
      flushed = before;
    }

    @Override
    public void sendError(int status) {
      sendError(status, null);
    }

    @Override
    public void sendError(int status, String said) {
      resetBuffer();
      error = status;
      message = said;
    }

    void send() throws IOException {
      writer.flush();
      if (error != 0) {
        super.sendError(error, message);
      } else if (bytes.size() > 0 && !super.isCommitted()) {
        super.getOutputStream().write(bytes.toByteArray());
      }
    }
  }
}
