import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.zip.CRC32C;

/**
 * CRC-32C for collect.py, which holds this class compiled (for Java 9, without debug information).
 *
 * A message on standard input, big-endian: its number, ranges, 1 where the checksum goes on from the message before, and
 * bytes (int each); the ends of each range, two ints; the bytes. The answer on standard output: the number, and an int for each range.
 */
public final class Crc32cPipe {
    private static final int MOST_AT_ONCE = 1 << 16;

    private Crc32cPipe() {}

    public static void main(String[] arguments) throws IOException {
        FileInputStream in = new FileInputStream(FileDescriptor.in);
        FileOutputStream out = new FileOutputStream(FileDescriptor.out);
        CRC32C checksum = new CRC32C();
        ByteBuffer head = ByteBuffer.allocate(16);
        byte[] held = new byte[0];
        while (read(in, head.array(), 16)) {
            int count = head.getInt(4);
            int size = 8 * count + head.getInt(12);
            if (held.length < size) held = new byte[size];
            if (!read(in, held, size)) return;
            ByteBuffer ranges = ByteBuffer.wrap(held);
            ByteBuffer answer = ByteBuffer.allocate(4 + 4 * count);
            answer.putInt(head.getInt(0));
            for (int range = 0; range < count; range++) {
                int from = ranges.getInt(8 * range);
                if (head.getInt(8) == 0) checksum.reset();
                checksum.update(held, 8 * count + from, ranges.getInt(8 * range + 4) - from);
                answer.putInt((int) checksum.getValue());
            }
            out.write(answer.array());
        }
    }

    /** Fills the first bytes; false at the end of the input. */
    private static boolean read(FileInputStream in, byte[] into, int size) throws IOException {
        for (int got = 0; got < size; ) {
            int more = in.read(into, got, Math.min(size - got, MOST_AT_ONCE));
            if (more < 0) return false;
            got += more;
        }
        return true;
    }
}
