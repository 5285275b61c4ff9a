package datastore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/sirupsen/logrus"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3compactor"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"google.golang.org/grpc"
)

// Etcd is the endpoint that stands for an etcd in this process, with its files in the data directory.
const Etcd = "etcd"

// What etcd does is chosen for a small device with flash and a single member.
const (
	// etcdBatch is how long etcd's database waits to write what the log already holds. Each commit writes whole pages,
	// the fewer the better; after a kill the log is read again from the last commit.
	etcdBatch = 5 * time.Second
	// etcdBatchLimit is after how many changes it waits no longer. etcd copies what waits for readers.
	etcdBatchLimit = 1000
	// etcdTick and etcdElectionTicks are how long a start takes: a single member elects itself after up to so many ticks.
	etcdTick          = 100 * time.Millisecond
	etcdElectionTicks = 2
	// etcdSegment is the size of a file of the log. Two are allocated ahead.
	etcdSegment = 4 << 20
	// etcdKept is how many entries of the log etcd keeps in memory for members that lag, of which there are none.
	etcdKept = 100
	// etcdSnapshot is after how many entries of the log those before are needed no more. A start reads the others into memory. With
	// 1,000, small writes write 2 % more bytes than with 5,000, and with 250 they write 5 to 15 % more.
	etcdSnapshot = 1000
	// etcdReads is how many bytes of its files a start reads in a second, on a slow card. It reads them twice: see checkEtcd.
	etcdReads = 10 << 20
	// etcdFiles is how many old files of the log, and of its snapshots, are kept.
	etcdFiles = 2
	// etcdQuota is the most that the database may take, unless Options say otherwise.
	etcdQuota = 2 << 30
	// etcdSpare is what it may take beyond, so that deletions can go on: some begin with a write, such as one that waits
	// for its dependents. Where etcd itself finds its quota used up it takes nothing that puts a key.
	etcdSpare = 256 << 20
)

// etcd is an etcd of one member. It listens on no network: the API server calls it in process, and the socket in the data
// directory is for the API server's checks and for etcdctl.
type etcd struct {
	dir      string // the data directory
	member   *etcdserver.EtcdServer
	services services
	grpc     *grpc.Server
	disk     *disk
	quota    int64       // of the database, in bytes
	doubtful atomic.Bool // nothing may be compacted: see Store.Verify
	over     atomic.Bool // the quota is used up, and relieve has made no room yet
	// compactor is not the member's own, which would not wait for Store.Verify.
	compactor v3compactor.Compactor
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

// etcdDir is the folder of etcd's files in a data directory.
func etcdDir(dir string) string { return filepath.Join(dir, "etcd") }

// etcdDatabase is its database.
func etcdDatabase(dir string) string { return filepath.Join(etcdDir(dir), "member", "snap", "db") }

// HoldsEtcd reports whether there is an etcd store in a data directory.
func HoldsEtcd(dir string) (bool, error) {
	return thereIs(filepath.Join(etcdDir(dir), "member", "wal"))
}

// HoldsSQLite reports whether there is an SQLite database in a data directory.
func HoldsSQLite(dir string) (bool, error) { return thereIs(sqlitePath(dir)) }

func thereIs(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// smallSegments is for the whole process, and must not change while a log is open.
var smallSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = etcdSegment })

// etcdName is the member's name, and etcdPeer is written down as its address, where nobody listens. Who makes a cluster of it
// tells etcd its real one: etcdctl member update.
const etcdName, etcdPeer = "reap", "http://127.0.0.1:2380"

// etcdConfig returns the configuration of a member whose log goes to l. What etcd's own program checks and fills in is
// etcd's default here, but for what a device needs.
func etcdConfig(dir string, quota int64, l *etcdLog) (config.ServerConfig, error) {
	peers, err := types.NewURLs([]string{etcdPeer})
	if err != nil {
		return config.ServerConfig{}, err
	}
	cluster, err := types.NewURLsMap(etcdName + "=" + etcdPeer)
	if err != nil {
		return config.ServerConfig{}, err
	}
	return config.ServerConfig{
		Name:                etcdName,
		DataDir:             etcdDir(dir),
		PeerURLs:            peers,
		InitialPeerURLsMap:  cluster,
		InitialClusterToken: etcdName,
		NewCluster:          true,

		TickMs:                     uint(etcdTick.Milliseconds()),
		ElectionTicks:              etcdElectionTicks,
		InitialElectionTickAdvance: true,
		PreVote:                    true,
		StrictReconfigCheck:        true,
		MaxLearners:                membership.DefaultMaxLearners,

		SnapshotCount:          etcdSnapshot,
		SnapshotCatchUpEntries: etcdKept,
		MaxSnapFiles:           etcdFiles,
		MaxWALFiles:            etcdFiles,
		BackendBatchInterval:   etcdBatch,
		BackendBatchLimit:      etcdBatchLimit,
		BackendFreelistType:    bbolt.FreelistArrayType,
		QuotaBackendBytes:      quota + etcdSpare,
		CompactHashCheckTime:   time.Minute,

		// As kine. etcd's default is ten minutes: what a watch cache tells its clients of a quiet resource would be that old.
		WatchProgressNotifyInterval: notifyEvery,

		MaxTxnOps:                   128,
		MaxRequestBytes:             2 << 20, // as kine takes
		MaxConcurrentStreams:        math.MaxUint32,
		WarningApplyDuration:        time.Second,
		WarningUnaryRequestDuration: time.Second,

		// Nobody logs in to it, but it does not start without.
		AuthToken:  "simple",
		BcryptCost: 10,
		TokenTTL:   300,

		Logger:            l.logger(),
		ServerFeatureGate: features.NewDefaultServerFeatureGate(etcdName, nil),
		V2Deprecation:     config.V2DeprDefault,
		Metrics:           "basic",
	}, nil
}

// withStartLimit bounds the start of an etcd: base, and longer the larger its files are, since a start reads them.
func withStartLimit(ctx context.Context, dir string, base time.Duration) (context.Context, context.CancelFunc) {
	bytes := etcdBytes(dir)
	limit := base + time.Duration(bytes/etcdReads)*time.Second
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("the start took longer than %s, which is the limit for files of %s; "+
		"this is no sign of damage: another process may be using them, or the disk or the machine may be too slow", limit, humanize.IBytes(uint64(bytes))))
}

// etcdBytes returns how large etcd's log and its database are.
func etcdBytes(dir string) (bytes int64) {
	logs, _ := filepath.Glob(filepath.Join(etcdDir(dir), "member", "wal", "*.wal"))
	for _, path := range append(logs, etcdDatabase(dir)) {
		if info, err := os.Stat(path); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// startEtcd starts etcd and returns when it has elected itself, which is when it answers.
func startEtcd(ctx context.Context, o Options, sock *socket) (_ *etcd, err error) {
	if strconv.IntSize < 64 {
		return nil, errors.New("etcd's authors support no 32-bit machine: leave out --datastore-endpoint=etcd for SQLite")
	}
	if err := os.MkdirAll(etcdDir(o.Dir), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of etcd: %w", err)
	}
	quota := cmp.Or(o.Quota, etcdQuota)
	member, err := startMember(ctx, o.Dir, quota, newEtcdLog(etcdDir(o.Dir)))
	if err != nil {
		return nil, err
	}
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e := &etcd{dir: o.Dir, member: member, cancel: cancel, quota: quota, services: servicesOf(member), disk: newDisk(etcdDir(o.Dir), o.Reserve, o.Metrics)}
	defer func() {
		if err != nil {
			e.stop()
		}
	}()
	listener, err := sock.listen()
	if err != nil {
		return nil, err
	}
	e.grpc = v3rpc.Server(member, nil, nil)
	e.wg.Go(func() {
		if err := e.grpc.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			logrus.WithError(err).Error("the datastore's socket has failed")
		}
	})
	e.disk.more = e.scarce
	e.doubtful.Store(o.VerifyFirst)
	// minHistory is a number of revisions in this mode. It compacts every five minutes, as kine does.
	if e.compactor, err = v3compactor.New(member.Logger(), v3compactor.ModeRevision, minHistory, member.KV(), compactable{e}); err != nil {
		return nil, fmt.Errorf("preparing the compaction of etcd: %w", err)
	}
	e.compactor.Run()
	e.wg.Go(func() { e.disk.keep(runCtx) })
	e.wg.Go(func() { e.keep(runCtx) })
	return e, nil
}

// startMember starts a member, makes its store if there is none, and returns when it has elected itself. Who calls it stops
// it. Quota is the most that the database may take, in bytes, but for deletions.
func startMember(ctx context.Context, dir string, quota int64, log *etcdLog) (*etcdserver.EtcdServer, error) {
	smallSegments()
	c, err := etcdConfig(dir, quota, log)
	if err != nil {
		return nil, err
	}
	if err := makeEtcd(ctx, dir, c, log); err != nil {
		return nil, fmt.Errorf("making the etcd store %s: %w", etcdDir(dir), err)
	}
	var member *etcdserver.EtcdServer
	if err = checkEtcd(ctx, dir); err == nil {
		member, err = log.newMember(ctx, c)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("reading the etcd store %s: %w", etcdDir(dir), context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("the etcd store %s cannot be used: %w; if it is damaged, restore a snapshot with "+
			"'reap snapshot restore', which keeps what is there", etcdDir(dir), err)
	}
	member.Start()
	select {
	case <-member.ReadyNotify():
		return member, nil
	case <-ctx.Done():
		member.Stop()
		return nil, context.Cause(ctx)
	}
}

// servicesOf are what a member answers in process.
func servicesOf(member *etcdserver.EtcdServer) services {
	return services{
		kv:          v3rpc.NewQuotaKVServer(member),
		watch:       v3rpc.NewWatchServer(member),
		lease:       v3rpc.NewQuotaLeaseServer(member),
		cluster:     v3rpc.NewClusterServer(member),
		maintenance: v3rpc.NewMaintenanceServer(member, nil),
	}
}

// client returns a new client in process.
func (e *etcd) client() *clientv3.Client { return e.services.client() }

// stop returns when all is on the disk and all goroutines have ended.
func (e *etcd) stop() {
	if e.compactor != nil {
		e.compactor.Stop()
	}
	e.cancel()
	if e.grpc != nil {
		force := time.AfterFunc(stopWithin, e.grpc.Stop)
		e.grpc.GracefulStop()
		force.Stop()
	}
	e.wg.Wait()
	e.member.Stop()
}
