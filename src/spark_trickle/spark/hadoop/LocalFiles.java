package trickle.runtime;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.io.nativeio.NativeIO;

/**
 * Hadoop's file system for local files starts a process, chmod, for every file and folder that it creates, unless its native library
 * is there; PySpark has none. This one asks the JVM for the same. Compiled at start by Janino (see runtime.py).
 */
public class LocalFiles {

  private static final URI LOCAL = URI.create("file:///");

  /** Use it from now on in this JVM; false if Hadoop's own is fine, or somebody has another. */
  public boolean install(Configuration conf) throws Exception {
    FileSystem now = FileSystem.get(LOCAL, conf);
    // Hive's is Hadoop's with other names for paths, which nobody here uses.
    boolean known = now.getClass().equals(LocalFileSystem.class)
        || now.getClass().getName().equals("org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem");
    if (NativeIO.isAvailable() || !known) return false;
    if (!FileSystems.getDefault().supportedFileAttributeViews().contains("unix")) return false;
    if (now instanceof LocalFileSystem && ((LocalFileSystem) now).getRaw() instanceof Raw) return true;
    LocalFileSystem made = new LocalFileSystem(new Raw());
    made.initialize(LOCAL, conf);
    Method add = FileSystem.class.getDeclaredMethod(
        "addFileSystemForTesting", new Class[] {URI.class, Configuration.class, FileSystem.class});
    add.setAccessible(true);
    add.invoke(null, new Object[] {LOCAL, conf, made});
    return true;
  }

  public static class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission wanted) throws IOException {
      File file = pathToFile(path);
      if (wanted.getStickyBit()) {
        super.setPermission(path, wanted);
        return;
      }
      if (file.isDirectory()) {  // as chmod does, the bits that set the user or group of new files stay
        int now = ((Integer) Files.getAttribute(file.toPath(), "unix:mode")).intValue();
        Files.setAttribute(file.toPath(), "unix:mode", Integer.valueOf(now & 06000 | wanted.toShort()));
        return;
      }
      String text = wanted.getUserAction().SYMBOL + wanted.getGroupAction().SYMBOL + wanted.getOtherAction().SYMBOL;
      Files.setPosixFilePermissions(file.toPath(), PosixFilePermissions.fromString(text));
    }
  }
}
