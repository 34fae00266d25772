import java.io.FileOutputStream;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs test classes under JUnit 4 and writes one JSON line per event (see _lines.py).
 *
 * <p>Arguments: the report, seconds that a test may take, a file of lines {@code path TAB class [TAB method]...}; without
 * methods all of the class run. Where a key lies beside the report, it is taken away before any class of the tests is
 * loaded, and each line begins with its code over the line's number and text.
 */
public final class _JUnitRunner extends RunListener {
    private static final int MAX_SAID = 1500;
    private static final int WAITING = 6;
    private static final int BLOCK = 64;

    private final Writer report;
    private final double limit;
    private final Map<String, Integer> seen = new HashMap<>();
    private final byte[] key;
    private int count;
    private String path = "";
    private volatile String current;
    private volatile long began;
    private volatile long used;
    private volatile long thread;
    private String status = "pass";
    private String said = "";

    private _JUnitRunner(Writer report, byte[] key, double limit) {
        this.report = report;
        this.key = key;
        this.limit = limit;
    }

    public static void main(String[] words) throws Exception {
        byte[] key = taken(Paths.get(words[0]).resolveSibling(".key"));
        Writer report = new OutputStreamWriter(new FileOutputStream(words[0]), StandardCharsets.UTF_8);
        _JUnitRunner runner = new _JUnitRunner(report, key, Double.parseDouble(words[1]));
        Thread watch = new Thread(runner::watch);
        watch.setDaemon(true);
        watch.start();
        for (String line : Files.readAllLines(Paths.get(words[2]))) {
            String[] parts = line.split("\t");
            runner.run(parts[0], parts[1], new HashSet<>(Arrays.asList(parts).subList(2, parts.length)));
        }
        runner.write("{\"end\": 0}");
        Runtime.getRuntime().halt(0);
    }

    private static byte[] taken(Path place) throws Exception {
        if (!Files.exists(place)) {
            return new byte[0];
        }
        byte[] key = Files.readAllBytes(place);
        Files.delete(place);
        return key;
    }

    private void run(String file, String name, Set<String> methods) throws Exception {
        path = file;
        try {
            Request request = Request.aClass(Class.forName(name));
            if (!methods.isEmpty()) {
                request = request.filterWith(chosen(methods));
            }
            JUnitCore core = new JUnitCore();
            core.addListener(this);
            core.run(request);
        } catch (ClassNotFoundException | LinkageError fault) {
            write("{\"file\": " + quoted(file) + ", \"said\": " + quoted(fault.toString()) + "}");
        }
    }

    private static Filter chosen(Set<String> methods) {
        return new Filter() {
            @Override
            public boolean shouldRun(Description each) {
                if (each.isTest()) {
                    return each.getMethodName() == null || methods.contains(each.getMethodName());
                }
                return each.getChildren().stream().anyMatch(this::shouldRun);
            }

            @Override
            public String describe() {
                return "chosen";
            }
        };
    }

    private String id(Description each) {
        String name = each.getMethodName() == null ? "class" : each.getMethodName();
        return path + "::" + name.replaceAll("\\s+", " ");
    }

    @Override
    public void testStarted(Description each) {
        status = "pass";
        said = "";
        thread = Thread.currentThread().getId();
        began = System.nanoTime();
        used = ManagementFactory.getThreadMXBean().getThreadCpuTime(thread);
        current = id(each);
    }

    @Override
    public void testFailure(Failure failure) throws Exception {
        String text = String.valueOf(failure.getException());
        if (current == null) {
            write("{\"file\": " + quoted(path) + ", \"said\": " + quoted(text) + "}");
            return;
        }
        status = "fail";
        said = said.isEmpty() ? text : said;
    }

    @Override
    public void testAssumptionFailure(Failure failure) {
        status = "skip";
    }

    @Override
    public void testIgnored(Description each) throws Exception {
        write("{\"id\": " + quoted(id(each)) + ", \"status\": \"skip\"}");
    }

    @Override
    public void testFinished(Description each) throws Exception {
        String name = current;
        current = null;
        int count = seen.merge(name, 1, Integer::sum);
        double seconds = (System.nanoTime() - began) / 1e9;
        write("{\"id\": " + quoted(count > 1 ? name + "#" + count : name) + ", \"status\": \"" + status + "\", \"seconds\": "
            + String.format(java.util.Locale.ROOT, "%.4f", seconds) + ", \"said\": " + quoted(said) + "}");
    }

    /** Processor time counts, so that a busy machine makes no test slow; who waits gets more, but not for ever. */
    private void watch() {
        ThreadMXBean times = ManagementFactory.getThreadMXBean();
        while (true) {
            try {
                Thread.sleep(200);
                String name = current;
                if (name == null) {
                    continue;
                }
                double own = (times.getThreadCpuTime(thread) - used) / 1e9;
                double wall = (System.nanoTime() - began) / 1e9;
                if (name.equals(current) && (own > limit || wall > WAITING * limit)) {
                    write("{\"slow\": " + quoted(name) + "}");
                    Runtime.getRuntime().halt(99);
                }
            } catch (Exception fault) {
                Runtime.getRuntime().halt(98);
            }
        }
    }

    private synchronized void write(String line) throws Exception {
        report.write((key.length == 0 ? "" : code(count + ":" + line) + " ") + line + "\n");
        report.flush();
        count++;
    }

    /** HMAC-SHA256 in hex (RFC 2104), for a key of one block at most. */
    private String code(String text) throws Exception {
        MessageDigest hash = MessageDigest.getInstance("SHA-256");
        byte[] inner = new byte[BLOCK];
        byte[] outer = new byte[BLOCK];
        for (int at = 0; at < BLOCK; at++) {
            byte part = at < key.length ? key[at] : 0;
            inner[at] = (byte) (part ^ 0x36);
            outer[at] = (byte) (part ^ 0x5c);
        }
        hash.update(inner);
        byte[] first = hash.digest(text.getBytes(StandardCharsets.UTF_8));
        hash.update(outer);
        StringBuilder out = new StringBuilder();
        for (byte each : hash.digest(first)) {
            out.append(String.format("%02x", each));
        }
        return out.toString();
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char sign : text.substring(0, Math.min(text.length(), MAX_SAID)).toCharArray()) {
            if (sign == '"' || sign == '\\') {
                out.append('\\').append(sign);
            } else if (sign < 32 || sign > 126) {
                out.append(String.format("\\u%04x", (int) sign));
            } else {
                out.append(sign);
            }
        }
        return out.append('"').toString();
    }
}
