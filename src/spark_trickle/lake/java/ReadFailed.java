package trickle.lake;

/** A file that could not be read: Spark will tell what is wrong with it. */
public class ReadFailed extends RuntimeException {
  public ReadFailed(Exception cause) {
    super(cause.toString(), cause);
  }
}
