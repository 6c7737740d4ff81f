package tests.spark;

public class Counter {
  private int seen = 0;

  public int next() {
    return ++seen;
  }
}
