import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A cluster of one datanode; `put FROM TO` on standard input copies a file into it. */
public class Mini {
    public static void main(String[] args) throws Exception {
        Configuration config = new HdfsConfiguration();
        config.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, args[0]);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(config).numDataNodes(1).format(true).build();
        cluster.waitActive();
        System.out.println("PORT " + cluster.getNameNode().getHttpAddress().getPort());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            cluster.getFileSystem().copyFromLocalFile(new Path(words[1]), new Path(words[2]));
            System.out.println("PUT");
        }
        cluster.shutdown();
        System.exit(0);
    }
}
