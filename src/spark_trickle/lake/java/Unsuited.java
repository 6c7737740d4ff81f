package trickle.lake;

/** What is left for Spark to read. */
public class Unsuited extends RuntimeException {
  public Unsuited(String why) {
    super(why);
  }
}
